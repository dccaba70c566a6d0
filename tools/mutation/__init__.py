"""How strong the tests are: small faults are put into the code, one at a time, for the tests to see."""

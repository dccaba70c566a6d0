"""What an editor can ask for, one subject in each file."""

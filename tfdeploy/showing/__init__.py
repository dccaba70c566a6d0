"""What Jupyter and rich show of the records that `import tfdeploy` returns; a file for each of them."""

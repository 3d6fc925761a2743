"""What runs, comparisons and reproductions leave behind, as plain data."""

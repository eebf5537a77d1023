"""What a named run can be."""

"""Results as a page, as documents and as files."""

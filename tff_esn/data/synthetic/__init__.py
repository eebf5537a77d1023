"""Generated subjects in the on-disk layouts of the public releases."""

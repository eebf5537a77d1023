"""Numbers, tables and what the documents print beside them."""

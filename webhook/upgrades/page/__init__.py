"""The plan as one page of HTML: its template, its style, and what fills them."""

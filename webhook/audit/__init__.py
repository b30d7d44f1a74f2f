"""Objects from files through the same engine as at admission, and reports of what it answered."""

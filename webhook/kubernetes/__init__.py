"""The connection to the API server: requests, lists page by page, watches, discovery. The one user of its client."""

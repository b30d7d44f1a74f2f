"""The connection to the API server: requests, lists page by page, watches, discovery. Nothing else uses its client."""

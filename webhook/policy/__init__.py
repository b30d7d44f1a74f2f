"""Policy files -> a validated, immutable set of policies, reloaded when the files change."""

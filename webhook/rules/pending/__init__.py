"""Why no node could ever run a pod: pure functions of a pod and of questions about nodes."""

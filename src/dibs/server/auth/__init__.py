"""Authentication, authorization, and the first checks of every request."""

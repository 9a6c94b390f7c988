-- Checks of a run's work by name, each with its state, which callers add after the run has ended.

ALTER TABLE runs ADD COLUMN checks TEXT NOT NULL DEFAULT '{}';

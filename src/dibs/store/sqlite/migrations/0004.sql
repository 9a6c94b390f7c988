-- Checks that were made of a run's work, each with its state, as they are learned of once the run has ended.

ALTER TABLE runs ADD COLUMN checks TEXT NOT NULL DEFAULT '{}';

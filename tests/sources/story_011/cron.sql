-- Story 011's cron job. Changed: nothing.
SELECT cron.schedule('release-stale-claims', '*/5 * * * *', 'SELECT release_stale_claims()');

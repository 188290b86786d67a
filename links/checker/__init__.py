"""Link checker: schedule, timetable, check runs, results and worker."""

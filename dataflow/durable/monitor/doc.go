// Package monitor serves the state of a durable flow over HTTP: whether its process must be restarted, whether
// it should get requests, and metrics for Prometheus.
//
//	app, err := durable.Start(ctx, build, options)
//	mux.Handle("/", monitor.Handler(app))
//
// [Handler] answers GET and HEAD at three paths:
//
//	/livez    200, or 503 and why: the flow has ended in this process (durable.Health.Live)
//	/readyz   200, or 503 and why: what is sent may wait long or be refused (durable.Health.Ready)
//	/metrics  the figures of durable.Health, in the text format of Prometheus
//
// A program that serves its own metrics registers [Collector], which has the same figures. A request takes 10
// ms at most, and waits no longer than that for a disk, another process or a server.
//
// [Quarantine] and [Backup] return handlers that change something: one lists, retries and drops the records
// that the program could not handle, the other makes a backup. Serve them only to those who may do this.
//
// The answers contain names of locations and texts of failures, which may quote a record. They require no
// password: serve them only to those who watch the flow.
//
// # Metrics
//
// For each partition, with the labels partition and location:
//
//	millrace_durable_partition_state      1 for the state in the label state, 0 for the others
//	millrace_durable_lag_records          durable and not taken by a step
//	millrace_durable_lag_bytes            the same in bytes
//	millrace_durable_lag_seconds          how long the oldest of them waits, in the process that owns the partition
//	millrace_durable_last_commit_timestamp_seconds    of the last step that this process made durable
//	millrace_durable_last_snapshot_timestamp_seconds  of the last snapshot that it made durable
//	millrace_durable_clock_offset_seconds  how far its time is ahead of the system's clock; negative if it is behind
//	millrace_durable_quarantine           letters in the quarantine
//	millrace_durable_sources              senders whose last number is remembered
//	millrace_durable_calls                asynchronous calls that run
//	millrace_durable_timers               timers that are set
//
// In a process that does not own the partition, only its state and its lag are given. For the process:
//
//	millrace_durable_live, _ready         1 or 0
//	millrace_durable_log_up               0 while the log takes nothing
//	millrace_durable_witness_up           0 while the witness does not know of all steps; 1 if there is none
//	millrace_durable_partitions_owned     partitions whose steps this process makes
//	millrace_durable_members              processes that share the partitions, as this one sees it;
//	                                      none of a log for one process, and of a client
//	millrace_durable_log_bytes            what the log takes on disk, of one replica
//	millrace_durable_log_kept_bytes       records, steps and states that it keeps, bounded by
//	millrace_durable_log_max_bytes        durable.Options.MaxBytes; none if there is no bound
//	millrace_durable_disk_free_bytes      what may be written to the file system of a log in a folder
//	millrace_durable_disk_bytes           the size of that
//	millrace_durable_log_measured_timestamp_seconds   when the log was asked what it takes
//	millrace_durable_wrong_clocks_total    partitions restored while the system's clock was behind them by more
//	                                      than a second, or ahead by more than durable.Options.MaxGap
//	millrace_durable_records_total, _steps_total, _snapshots_total, _restores_total,
//	_replayed_steps_total, _quarantined_total, _fenced_total, _unknown_total, _no_room_total
//	millrace_durable_append_seconds, _commit_seconds, _snapshot_seconds
//	                                      histograms of what the log took for each
//	millrace_durable_snapshot_pause_seconds, _snapshot_bytes, _restore_seconds
//	                                      of the last one
//
// A metric is missing if the log does not report the figure.
//
// Alert on a partition that is stopped, on a growing lag_seconds, on a quarantine that is not empty, on a
// log_up of 0, on log_kept_bytes near two fifths of log_max_bytes, and on low disk_free_bytes.
//
// A clock_offset_seconds of more than a second means that the system clock was changed or the machine was
// suspended while the process ran, or that the clock is or was wrong at a start. At each start a partition that
// is behind goes forward, by MaxGap at most; one that is ahead runs at half speed from then on, until it is
// right.
//
// If members is less than the number of processes, some cannot be reached; 0 means that this process cannot
// reach the servers.
package monitor

// Package monitor serves what a durable flow says of itself over HTTP: whether the process is to
// be started again, whether it is to get requests, and figures for Prometheus.
//
//	app, err := durable.Start(ctx, build, options)
//	mux.Handle("/", monitor.Handler(app))
//
// [Handler] answers GET and HEAD at three paths:
//
//	/livez    200, or 503 and why: the flow has ended in this process ([durable.Health.Live])
//	/readyz   200, or 503 and why: what is sent may wait long or be refused ([durable.Health.Ready])
//	/metrics  the figures of [durable.Health], in the text format of Prometheus, version 0.0.4
//
// A request takes 10 ms at most, and asks no other process and no server.
//
// The answers have names of locations, and of a failure what it says, which may quote a record. They
// need no password: serve them where only those who watch the flow can reach them.
//
// # Metrics
//
// Of each partition, with the labels partition and location:
//
//	millrace_durable_partition_state      1 for the state in the label state, 0 for the others
//	millrace_durable_lag_records          durable and not taken by a step
//	millrace_durable_lag_bytes            the same in bytes
//	millrace_durable_lag_seconds          how long the oldest of them waits, in the process that owns the partition
//	millrace_durable_last_commit_timestamp_seconds    of the last step that this process made durable
//	millrace_durable_last_snapshot_timestamp_seconds  of the last snapshot that it made durable
//	millrace_durable_quarantine           letters in the quarantine
//	millrace_durable_sources              senders whose last number is remembered
//	millrace_durable_calls                asynchronous calls that run
//	millrace_durable_timers               timers that are set
//
// In a process that does not own the partition there are only its state and its lag. Of the process:
//
//	millrace_durable_live, _ready         1 or 0
//	millrace_durable_log_up               0 while the log takes nothing
//	millrace_durable_records_total, _steps_total, _snapshots_total, _restores_total,
//	_replayed_steps_total, _quarantined_total, _fenced_total, _unknown_total, _no_room_total
//	millrace_durable_append_seconds, _commit_seconds, _snapshot_seconds
//	                                      histograms of what the log took for each
//	millrace_durable_snapshot_pause_seconds, _snapshot_bytes, _restore_seconds
//	                                      of the last one
//
// Alert on a partition that is stopped, on lag_seconds that grows, on a quarantine that is not
// empty, and on log_up that is 0.
package monitor

// Package chaos breaks durable flows on purpose and reads everything back.
//
// Its tests run real servers and real processes, kill, stop and cut them off while
// requests are answered, and then compare three things that were got in different ways:
// what callers were told, what the committed steps gave, and what a plain loop makes of
// the records that came in. Nothing may be missing, doubled or wrong, and everything
// that was acknowledged has to be there. A second flow, a bank, has four locations: what
// its customers were told has to agree with what all accounts and the auditor have at the end.
//
//	go test ./dataflow/durable/internal/chaos                                   # a short run
//	go test ./dataflow/durable/internal/chaos -v -timeout 60m -chaos.all -chaos.duration 60s -chaos.kills 200
//	go test ./dataflow/durable/internal/chaos -v -run TestChaos/workers -chaos.all -chaos.duration 60s -seed 7
//	go test ./dataflow/durable/internal/chaos -run '^$' -bench . -timeout 60m   # throughput, latency, recovery
//
// The servers are built from the module that this one depends on.
package chaos

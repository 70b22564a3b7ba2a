// Package chaos breaks durable flows on purpose and reads everything back.
//
// Its tests run real servers and real processes, and kill, stop and cut them off while requests are answered.
// Then they compare three things that were obtained in different ways: what callers received, what the
// committed steps gave, and what a plain loop makes of the incoming records. Nothing may be missing, doubled or
// wrong, and everything that was acknowledged must exist. A second flow, a bank, has four locations: what its
// customers received must agree with all accounts and the auditor at the end.
//
//	go test ./dataflow/durable/internal/chaos                                   # a short run
//	go test ./dataflow/durable/internal/chaos -v -timeout 60m -chaos.all -chaos.duration 60s -chaos.kills 200
//	go test ./dataflow/durable/internal/chaos -v -run TestChaos/workers -chaos.all -chaos.duration 60s -seed 7
//	go test ./dataflow/durable/internal/chaos -run '^$' -bench . -timeout 60m   # throughput, latency, recovery
//
// The servers are built from the module that this one depends on.
package chaos

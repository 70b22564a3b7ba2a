// Package agentchaos kills runtimes and tool servers of the agent tool protocol at random
// while they make thousands of calls, and reads everything back.
//
// Its tests run several runtimes and several tool servers, each a process with its own state folder. In
// every tick each process is killed with a probability of 3 %, or another -agentchaos.chance, as kill -9
// does, and started again with its state. The test process itself is not killed: it makes the calls, records
// every answer, and queries everything again at the end, after all processes have been killed once more. It
// finds
//
//   - a call that was accepted and has no result, or has two,
//   - a callback that a tool server saw answered 200 and that had no effect,
//   - an event of a subscription that is missing, repeated or out of order.
//
// In the second form the runtimes share their calls in a NATS cluster, whose servers are killed as well.
//
//	go test ./agentproto/internal/agentchaos                                  # a short run
//	go test ./agentproto/internal/agentchaos -v -timeout 10m -agentchaos.duration 60s -agentchaos.chance 0.01
//	go test ./agentproto/internal/agentchaos -v -timeout 10m -run TestChaos/shared -agentchaos.shared
package agentchaos

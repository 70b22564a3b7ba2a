// Package agentchaos kills runtimes and tool servers of the agent tool protocol at random
// while they make thousands of calls, and reads everything back.
//
// Its tests run several runtimes and several tool servers, each a process with a state
// folder of its own. Every tick each of them is killed with a probability of 1 %, as kill
// -9 does, and started again on what it has kept. The test itself is no process that is
// killed: it makes the calls, keeps a ledger of what it was told, and asks for everything
// again in the end, when all processes have been killed once more. It finds
//
//   - a call that was accepted and has no result, or has had two,
//   - a callback that a tool server saw answered 200 and that had no effect,
//   - an event of a subscription that is missing, repeated or out of order.
//
// The second form has the runtimes share their calls in a NATS cluster whose servers are
// killed as well.
//
//	go test ./agentproto/internal/agentchaos                                  # a short run
//	go test ./agentproto/internal/agentchaos -v -timeout 10m -agentchaos.duration 60s -agentchaos.chance 0.01
//	go test ./agentproto/internal/agentchaos -v -timeout 10m -run TestChaos/shared -agentchaos.shared
package agentchaos

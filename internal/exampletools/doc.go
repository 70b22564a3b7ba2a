// Package exampletools provides three tool servers to try the agent tool protocol
// with. The demo calls them, and they are examples for package toolserver.
//
//	Clock    fast tools, and two that do what a tool should not
//	Slow     tools that take their time, or do not answer at all
//	Feed     tools that go on after their result, or show something before it
//
// Each function returns a server that is ready to be served under the PublicURL of
// its options, or an error if the State of its options cannot be opened. A server
// with a State continues from it when it is started. The results depend only on the
// arguments and on the given clock. Package account provides a fourth server, which
// needs an OAuth provider.
package exampletools

// Package exampletools has three tool servers to try the agent tool protocol
// with. They are what the demo calls, and examples of package toolserver.
//
//	Clock    fast tools, and two that do what a tool should not
//	Slow     tools that take their time, or do not answer at all
//	Feed     tools that go on after their result, or show something before it
//
// Each returns a server that is ready to be served under the PublicURL of its
// options, or an error if the State of its options cannot be opened. One with a State
// goes on with what it has when it is started. Their results depend on nothing but their arguments and the clock that
// is given to them. Package account has a fourth, which needs an OAuth provider.
package exampletools

// Package undertest is Millrace's own tool server as the conformance runner needs it: with an
// operation for every role, short time-outs, a state folder, two runtimes that are distinguished by
// their credentials, and TLS.
//
// [Prepare] makes the folder, the certificates and the configuration of two such servers, starts an
// OAuth provider for them, and returns the target for package conform. The servers themselves are
// processes that call [Serve].
package undertest

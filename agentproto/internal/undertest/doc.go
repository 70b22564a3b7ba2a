// Package undertest is Millrace's own tool server as the conformance runner wants
// it: with an operation for every role, short time-outs, a state folder, two
// runtimes that are told apart by their credentials, and TLS.
//
// [Prepare] makes the folder, the certificates and the configuration of two such
// servers, starts an OAuth provider for them, and returns the target to give to
// package conform; the servers themselves are processes that call [Serve].
package undertest

// Package oauth is the client that a tool server is to OAuth providers.
//
// A [Client] sends users to a [Provider], receives them when they come back, exchanges codes,
// renews and revokes tokens, and keeps those in a vault. Which of that is to be done is decided by
// the flow, see package authorize; a client does its jobs ([Client.Do]) and tells it who has come
// back ([Client.ServeRedirect]).
//
// What is secret of an authorization, such as its state parameter, is made of its name and of a
// secret of the vault, so that no history has it and nothing is to be kept.
package oauth

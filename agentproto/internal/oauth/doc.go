// Package oauth is a tool server's client of OAuth providers.
//
// A [Client] sends users to a [Provider], receives them when they come back, exchanges codes,
// renews and revokes tokens, and stores tokens in a vault. The flow decides which of these to do,
// see package authorize. A client does the flow's jobs ([Client.Do]) and reports users who came
// back ([Client.ServeRedirect]).
//
// The secrets of an authorization, such as its state parameter, are derived from its name and a
// secret of the vault. So no history contains them, and they need not be stored.
package oauth

// Package idp is a small OAuth 2 and OpenID Connect provider that runs inside
// the process, over TLS on loopback.
//
//	p, err := idp.Start(idp.Options{})
//	…
//	defer p.Close()
//	p.RegisterRedirect(idp.DefaultClientID, "http://127.0.0.1:4711/callback")
//	page, err := p.NewBrowser().Allow(ctx, authURL, "ada", "lovelace")
//
// It exists for the demo and for tests: a tool that asks a user for
// authorization needs a provider at the other end, and one that merely plays back
// answers hides the mistakes that matter.
//
// # What it is strict about
//
//   - Only the authorization code flow, and only with PKCE and S256.
//   - A redirect URI is compared byte for byte with the registered ones.
//   - A code is good for one exchange. A second one is refused and takes back
//     the tokens of the first.
//   - A refresh token is good for one refresh. An old one is refused and takes
//     back every token of its grant, because somebody has a copy.
//   - The authorization response names the issuer (RFC 9207), and the metadata
//     says so.
//   - Login and consent are pages with a CSRF token that a person can use as
//     well as [Browser] can.
//
// A refresh token is issued when the scope offline_access was asked for, the
// user's name when profile was.
//
// # What it does not promise
//
// Everything is in memory and gone after [Provider.Close]. Passwords are compared
// as they were given, so they must not be anybody's real ones; [Start] refuses an
// address that is not loopback. There is no single sign-on: every authorization
// asks for the password.
//
// The protocol library reports refused requests to [log/slog]'s default logger.
// The reports contain no codes and no tokens.
package idp

// Package idp is a small OAuth 2 and OpenID Connect provider that runs inside the
// process, over TLS on loopback.
//
//	p, err := idp.Start(idp.Options{})
//	…
//	defer p.Close()
//	p.RegisterRedirect(idp.DefaultClientID, "http://127.0.0.1:4711/callback")
//	page, err := p.NewBrowser().Allow(ctx, authURL, "ada", "lovelace")
//
// It exists for the demo and for tests. A tool that asks a user for authorization
// needs a provider, and a provider that only plays back answers hides the
// mistakes that matter.
//
// # What it is strict about
//
//   - Only the authorization code flow, and only with PKCE and S256.
//   - A redirect URI is compared byte for byte with the registered ones.
//   - A code can be exchanged once. A second exchange is refused and revokes the
//     tokens of the first.
//   - A refresh token can be used once. An old one is refused and revokes every
//     token of its grant, because somebody has a copy.
//   - The authorization response names the issuer (RFC 9207), and the metadata
//     says so.
//   - Login and consent are pages with a CSRF token that a person can use as well
//     as [Browser] can.
//
// A refresh token is issued if the scope offline_access was requested, and the
// user's name if profile was.
//
// # What it does not promise
//
// Everything is in memory and gone after [Provider.Close]. Passwords are stored
// in the clear, so they must not be anybody's real ones; [Start] refuses an
// address that is not loopback. There is no single sign-on: every authorization
// asks for the password.
//
// The protocol library reports refused requests to [log/slog]'s default logger.
// The reports contain no codes and no tokens.
package idp

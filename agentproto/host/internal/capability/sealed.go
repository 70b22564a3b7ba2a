package capability

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/millrace/millrace/agentproto"
)

// An auth_url is a secret of the user that must not be kept longer than it takes to show it (doc/protocol.md §5.3, case O07). The
// program, whose history may be stored on a disk, gets it sealed, and identifies the detour by a digest.

// sealedScheme starts a sealed AuthURL. A tool cannot send one, because it is not https.
const sealedScheme = "sealed:"

// SealOAuth returns the event for an authorization, with a sealed auth_url.
func SealOAuth(s Sealer, o *agentproto.OAuth) (agentproto.Event, error) {
	kid, secret, err := s.Seal([]byte(o.AuthURL), oauthContext(o.Key()))
	if err != nil {
		return agentproto.Event{}, fmt.Errorf("host: sealing an auth_url: %w", err)
	}
	sealed := *o
	sealed.AuthURL = sealedScheme + kid + "/" + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte("auth_url\x00" + o.AuthURL))
	return agentproto.Event{
		Kind: agentproto.OAuthArrived, OAuth: &sealed, Detour: base64.RawURLEncoding.EncodeToString(sum[:16]),
	}, nil
}

// OpenOAuth is the inverse of [SealOAuth].
func OpenOAuth(s Sealer, o *agentproto.OAuth) (*agentproto.OAuth, error) {
	kid, token, ok := strings.Cut(strings.TrimPrefix(o.AuthURL, sealedScheme), "/")
	secret, err := base64.RawURLEncoding.DecodeString(token)
	if !ok || err != nil {
		return nil, fmt.Errorf("host: opening an auth_url: %w", ErrForged)
	}
	url, err := s.Open(kid, secret, oauthContext(o.Key()))
	if err != nil {
		return nil, fmt.Errorf("host: opening an auth_url: %w", err)
	}
	open := *o
	open.AuthURL = string(url)
	return &open, nil
}

// oauthContext binds a sealed text to its purpose and its call.
func oauthContext(key agentproto.CallKey) []byte {
	return fmt.Appendf(nil, "millrace auth_url v1 %q %q", key.GroupID, key.ID)
}

package idp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// A signingKey signs ID tokens. It is an ECDSA key rather than RSA because one is
// made at every start, and tests start many providers.
type signingKey struct {
	id  string
	key *ecdsa.PrivateKey
}

func newSigningKey() (signingKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signingKey{}, fmt.Errorf("idp: make a key: %w", err)
	}
	return signingKey{id: randomText(), key: key}, nil
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) Key() any                                    { return k.key }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.ES256 }

// publicKey is the half of a signingKey that the keys endpoint publishes.
type publicKey struct{ signingKey }

func (k publicKey) Key() any                           { return &k.key.PublicKey }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.ES256 }

// SigningKey implements op.Storage.
func (s *store) SigningKey(context.Context) (op.SigningKey, error) { return s.key, nil }

// SignatureAlgorithms implements op.Storage.
func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.ES256}, nil
}

// KeySet implements op.Storage.
func (s *store) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{s.key}}, nil
}

// GetKeyByIDAndClientID implements op.Storage. No client has a key: they
// authenticate with a secret or not at all.
func (s *store) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errors.New("clients have no keys")
}

// randomText returns 256 random bits in a form that is valid in a URL.
func randomText() string {
	var b [32]byte
	rand.Read(b[:]) // never fails, see its documentation
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// sameText compares secrets. The time it takes reveals neither where they differ
// nor the length of the right one.
func sameText(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

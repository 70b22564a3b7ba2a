// Package capability makes the secrets that a runtime issues: a callback URL, which permits one tool server to post messages
// about one call ([Capability]), and a sealed auth_url ([SealOAuth]). Both are sealed by a [Sealer].
package capability

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

// Path is the path of the callback endpoint, below the public URL. A capability follows it as two path segments and not in the
// query, because some tool servers sign only the path.
const Path = "/rap/v1/cb/"

// maxCapability is the maximum length of the two path segments together.
const maxCapability = 512

// A Sealer seals what a callback URL permits, and opens what it sealed: see host.Sealer.
type Sealer interface {
	Seal(text, context []byte) (kid string, sealed []byte, err error)
	Open(kid string, sealed, context []byte) ([]byte, error)
}

// NewSealer returns a Sealer with a random AES-256-GCM key.
func NewSealer() (Sealer, error) {
	var secret [32]byte
	rand.Read(secret[:])
	return SealerOf(secret)
}

// SealerOf returns a Sealer with an AES-256-GCM key.
func SealerOf(secret [32]byte) (Sealer, error) {
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, fmt.Errorf("host: callback key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("host: callback key: %w", err)
	}
	name := sha256.Sum256(append([]byte("name of a callback key\x00"), secret[:]...))
	return &sealer{kid: base64.RawURLEncoding.EncodeToString(name[:6]), aead: aead}, nil
}

type sealer struct {
	kid  string
	aead cipher.AEAD // makes its own nonce and puts it first
}

func (e *sealer) Seal(text, context []byte) (string, []byte, error) {
	return e.kid, e.aead.Seal(nil, nil, text, context), nil
}

func (e *sealer) Open(kid string, sealed, context []byte) ([]byte, error) {
	if kid != e.kid {
		return nil, ErrForged
	}
	return e.aead.Open(nil, nil, sealed, context)
}

var (
	ErrForged = errors.New("host: not a capability of this runtime")
	// ErrExpired is returned together with the capability: see [Open].
	ErrExpired = errors.New("host: capability has expired")
)

// MaxLifetime is the longest lifetime of a call. Twice as much can still be added to a time.
const MaxLifetime = 100 * 365 * 24 * time.Hour

// Kinds is a set of callback types.
type Kinds byte

const (
	MayResult Kinds = 1 << iota
	MayOAuth
	MayChoice
	MayEvent
	MayView

	MayAll = MayResult | MayOAuth | MayChoice | MayEvent | MayView
)

// ServerID identifies a tool server by its configured address.
type ServerID [16]byte

// String returns the identifier in the form in which it is stored.
func (id ServerID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseServerID is the inverse of [ServerID.String].
func ParseServerID(name string) (ServerID, bool) {
	id, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || len(id) != len(ServerID{}) {
		return ServerID{}, false
	}
	return ServerID(id), true
}

// Identify returns the identifier of the tool server with a base URL.
func Identify(base string) ServerID {
	sum := sha256.Sum256([]byte("tool server\x00" + base))
	return ServerID(sum[:16])
}

// A Capability is what a callback URL permits: the tool server that it was given to may post messages of some types about one
// call, until it expires.
type Capability struct {
	Server  ServerID
	Key     agentproto.CallKey
	Allowed Kinds
	Expires time.Time // in whole seconds
	// Lifetime is how long the call may wait for its result, and again after a choice, in whole seconds. It is part of the URL so
	// that any process can handle a choice.
	Lifetime time.Duration
	// Incarnation is that of the call: the URL is not valid for a later call with the same key.
	Incarnation uint64
	// Trace is the span that made the call, without its State, or zero. It is part of the URL so that any process knows the trace
	// of a message about the call.
	Trace agentproto.Trace
}

// traced is the bit in the kinds that says that a trace follows.
const traced = 1 << 7

// capabilityContext binds a sealed text to its purpose, so that nothing else sealed with the same key can pass for a capability.
var capabilityContext = []byte("millrace callback capability v3")

// seal returns the two path segments of a capability.
func (c Capability) seal(s Sealer) (string, error) {
	text := make([]byte, 0, 64+len(c.Key.GroupID)+len(c.Key.ID))
	if id, ok := tracing.Parse(c.Trace.Parent); ok {
		text = append(append(text, byte(c.Allowed)|traced), id[:]...)
	} else {
		text = append(text, byte(c.Allowed))
	}
	text = append(text, c.Server[:]...)
	text = binary.BigEndian.AppendUint64(text, uint64(c.Expires.Unix()))
	text = binary.AppendUvarint(text, uint64((min(c.Lifetime, MaxLifetime)+time.Second-1)/time.Second))
	text = binary.BigEndian.AppendUint64(text, c.Incarnation)
	text = binary.AppendUvarint(text, uint64(len(c.Key.GroupID)))
	text = append(text, c.Key.GroupID...)
	text = append(text, c.Key.ID...)
	kid, sealed, err := s.Seal(text, capabilityContext)
	if err != nil {
		return "", fmt.Errorf("host: sealing a callback URL: %w", err)
	}
	segments := kid + "/" + base64.RawURLEncoding.EncodeToString(sealed)
	if len(segments) > maxCapability && !c.Trace.IsZero() { // a long identifier takes precedence over the trace
		c.Trace = agentproto.Trace{}
		return c.seal(s)
	}
	if len(segments) > maxCapability {
		return "", fmt.Errorf("host: callback URL of %d characters: %w", len(segments), ErrBadID)
	}
	return segments, nil
}

// URL returns the callback URL of a capability, below the public URL of the runtime.
func (c Capability) URL(s Sealer, public string) (string, error) {
	segments, err := c.seal(s)
	return public + Path + segments, err
}

// Open returns the capability in the two path segments of a callback URL. Every failure except expiry is [ErrForged].
func Open(s Sealer, segments string, now time.Time) (Capability, error) {
	kid, token, ok := strings.Cut(segments, "/")
	if !ok || len(segments) > maxCapability {
		return Capability{}, ErrForged
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	// The decoder ignores line breaks; a capability has exactly one spelling.
	if err != nil || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(token) {
		return Capability{}, ErrForged
	}
	text, err := s.Open(kid, sealed, capabilityContext)
	if err != nil || len(text) == 0 {
		return Capability{}, ErrForged
	}
	c := Capability{Allowed: Kinds(text[0] &^ traced)}
	has := text[0]&traced != 0
	text = text[1:]
	if has && len(text) >= len(tracing.ID{}) {
		c.Trace.Parent = tracing.ID(text[:len(tracing.ID{})]).String()
		text = text[len(tracing.ID{}):]
	} else if has {
		return Capability{}, ErrForged
	}
	if len(text) < 16+8+1 {
		return Capability{}, ErrForged
	}
	c.Server = ServerID(text[:16])
	c.Expires = time.Unix(int64(binary.BigEndian.Uint64(text[16:24])), 0)
	text = text[24:]
	seconds, size := binary.Uvarint(text)
	if size <= 0 || seconds > uint64(MaxLifetime/time.Second) || len(text) < size+8 {
		return Capability{}, ErrForged
	}
	c.Lifetime, text = time.Duration(seconds)*time.Second, text[size:]
	c.Incarnation, text = binary.BigEndian.Uint64(text), text[8:]
	n, size := binary.Uvarint(text)
	if size <= 0 || n > uint64(len(text)-size) {
		return Capability{}, ErrForged
	}
	text = text[size:]
	c.Key = agentproto.CallKey{GroupID: string(text[:n]), ID: string(text[n:])}
	if !now.Before(c.Expires) {
		return c, ErrExpired
	}
	return c, nil
}

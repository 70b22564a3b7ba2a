package host

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
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/agentproto"
)

// callbackPath is where the callback endpoint lives, below the public URL. A
// capability follows it in two path segments and not in the query: some tool
// servers sign the path alone.
const callbackPath = "/rap/v1/cb/"

// maxCapability bounds the two path segments of a capability together.
const maxCapability = 512

// MaxID is the longest thread or tool call identifier, in bytes, that a
// [Runtime] works with. Both travel in the callback URL, sealed.
const MaxID = agentproto.MaxID

// A Sealer makes callback URLs unforgeable. It seals what a URL permits and opens
// what it sealed, and nothing else.
//
// Both halves of what Seal returns become path segments, so kid, the name of the
// key, has to consist of letters, digits, - and _.
type Sealer interface {
	// Seal encrypts and authenticates a text, and authenticates context with it.
	// Sealing a text twice has to give different results.
	Seal(text, context []byte) (kid string, sealed []byte, err error)
	// Open returns the text. It fails if anything was altered, and takes the same
	// time whatever it was.
	Open(kid string, sealed, context []byte) ([]byte, error)
}

// NewSealer returns a [Sealer] with one random key, AES-256-GCM, that is forgotten
// with it. Callback URLs do not outlive the runtime then.
func NewSealer() (Sealer, error) {
	var secret [32]byte
	rand.Read(secret[:])
	return SealerOf(secret)
}

// SealerOf returns a [Sealer] with a key that the caller keeps: AES-256-GCM. Callback URLs
// outlive the runtime for as long as the key is used. Who has the key can make callback
// URLs, so it is kept like a password.
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
		return nil, errForged
	}
	return e.aead.Open(nil, nil, sealed, context)
}

var (
	errForged  = errors.New("host: not a capability of this runtime")
	errExpired = errors.New("host: capability has expired")
)

// maxLifetime is longer than what any call is given.
const maxLifetime = 100 * 365 * 24 * time.Hour

// kinds is a set of callback types.
type kinds byte

const (
	mayResult kinds = 1 << iota
	mayOAuth
	mayChoice
	mayEvent
	mayView

	mayAll = mayResult | mayOAuth | mayChoice | mayEvent | mayView
)

// serverID identifies a tool server by the address it is configured with.
type serverID [16]byte

func identify(base string) serverID {
	sum := sha256.Sum256([]byte("tool server\x00" + base))
	return serverID(sum[:16])
}

// A capability is what a callback URL permits: the server it was given to may
// post messages of some types about one call, until it expires.
type capability struct {
	server  serverID
	key     agentproto.CallKey
	allowed kinds
	expires time.Time // whole seconds
	// lifetime is how long the call may wait for its result, and again after a choice, in whole seconds: whichever process
	// gets the choice says so.
	lifetime time.Duration
	// incarnation is that of the call: a URL is of no use for a later call with the key.
	incarnation uint64
}

// capabilityContext binds a sealed text to its purpose, so that nothing else that
// is ever sealed with the same key can pass for a capability.
var capabilityContext = []byte("millrace callback capability v3")

// seal returns the two path segments of a capability.
func (c capability) seal(s Sealer) (string, error) {
	text := make([]byte, 0, 64+len(c.key.GroupID)+len(c.key.ID))
	text = append(text, byte(c.allowed))
	text = append(text, c.server[:]...)
	text = binary.BigEndian.AppendUint64(text, uint64(c.expires.Unix()))
	text = binary.AppendUvarint(text, uint64((min(c.lifetime, maxLifetime)+time.Second-1)/time.Second))
	text = binary.BigEndian.AppendUint64(text, c.incarnation)
	text = binary.AppendUvarint(text, uint64(len(c.key.GroupID)))
	text = append(text, c.key.GroupID...)
	text = append(text, c.key.ID...)
	kid, sealed, err := s.Seal(text, capabilityContext)
	if err != nil {
		return "", fmt.Errorf("host: sealing a callback URL: %w", err)
	}
	segments := kid + "/" + base64.RawURLEncoding.EncodeToString(sealed)
	if len(segments) > maxCapability {
		return "", fmt.Errorf("host: callback URL of %d characters: %w", len(segments), ErrBadID)
	}
	return segments, nil
}

// openCapability is the inverse of seal. Every failure but expiry is errForged.
func openCapability(s Sealer, segments string, now time.Time) (capability, error) {
	kid, token, ok := strings.Cut(segments, "/")
	if !ok || len(segments) > maxCapability {
		return capability{}, errForged
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	// The decoder skips line breaks; a capability has one spelling only.
	if err != nil || base64.RawURLEncoding.EncodedLen(len(sealed)) != len(token) {
		return capability{}, errForged
	}
	text, err := s.Open(kid, sealed, capabilityContext)
	if err != nil || len(text) < 1+16+8+1 {
		return capability{}, errForged
	}
	c := capability{allowed: kinds(text[0]), server: serverID(text[1:17])}
	c.expires = time.Unix(int64(binary.BigEndian.Uint64(text[17:25])), 0)
	text = text[25:]
	seconds, size := binary.Uvarint(text)
	if size <= 0 || seconds > uint64(maxLifetime/time.Second) || len(text) < size+8 {
		return capability{}, errForged
	}
	c.lifetime, text = time.Duration(seconds)*time.Second, text[size:]
	c.incarnation, text = binary.BigEndian.Uint64(text), text[8:]
	n, size := binary.Uvarint(text)
	if size <= 0 || n > uint64(len(text)-size) {
		return capability{}, errForged
	}
	text = text[size:]
	c.key = agentproto.CallKey{GroupID: string(text[:n]), ID: string(text[n:])}
	if !now.Before(c.expires) {
		return c, errExpired
	}
	return c, nil
}

// checkID enforces what identifiers may look like: they travel in URLs, logs and
// other programs' databases.
func checkID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("host: %s is empty: %w", what, ErrBadID)
	case len(id) > MaxID:
		return fmt.Errorf("host: %s has %d bytes, at most %d: %w", what, len(id), MaxID, ErrBadID)
	case !utf8.ValidString(id):
		return fmt.Errorf("host: %s is not UTF-8: %w", what, ErrBadID)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("host: %s contains a control character: %w", what, ErrBadID)
	}
	return nil
}

// Package envelope protects a message between two instances of one program that share a secret,
// such as the state of a session on its way to another host. Nobody else can read, make, alter or
// redirect the message, and it expires.
package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// MinSecret is the minimum length of a secret in bytes.
const MinSecret = 32

// Tolerance is how far the clocks of two instances may differ, including the time in transit.
const Tolerance = 5 * time.Minute

var (
	// ErrForged is returned for a message that was not sealed with this secret for this purpose and
	// context, or was altered. It does not say which.
	ErrForged = errors.New("envelope: not sealed by somebody with this key for this")
	// ErrStale is returned for a message whose sealing time is more than Tolerance in the past or
	// the future.
	ErrStale = errors.New("envelope: sealed too long ago, or the clocks differ")
)

// An Envelope seals and opens messages of one purpose. It is safe for concurrent use.
type Envelope struct{ aead cipher.AEAD }

// New returns the envelope of a purpose. Envelopes of different purposes cannot open each other's
// messages, even with the same secret.
func New(secret []byte, purpose string) (*Envelope, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("envelope: the secret has %d bytes, at least %d are needed", len(secret), MinSecret)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "millrace envelope v1: "+purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	return &Envelope{aead}, nil
}

// Seal encrypts and authenticates a message. About is its context, such as a session, a sender and
// a receiver. It is authenticated with the message, and the receiver must know it to open the
// message.
func (e *Envelope) Seal(message []byte, about ...string) []byte {
	text := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(message)), uint64(time.Now().UnixNano()))
	return e.aead.Seal(nil, nil, append(text, message...), context(about))
}

// Open returns the message. It does not detect that a message was opened before: a repeated request
// should be harmless, or the caller must recognize it.
func (e *Envelope) Open(sealed []byte, about ...string) ([]byte, error) {
	text, err := e.aead.Open(nil, nil, sealed, context(about))
	if err != nil || len(text) < 8 {
		return nil, ErrForged
	}
	if age := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(text)))); age.Abs() > Tolerance {
		return nil, ErrStale
	}
	return text[8:], nil
}

// context encodes the context of a message. Different lists have different encodings.
func context(about []string) (text []byte) {
	for _, a := range about {
		text = binary.AppendUvarint(text, uint64(len(a)))
		text = append(text, a...)
	}
	return text
}

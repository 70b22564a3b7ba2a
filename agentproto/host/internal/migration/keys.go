package migration

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

var ErrOtherKey = errors.New("host: another key than that of the history")

// A keyMark is a stored mark of a key, by which a different key is noticed.
type keyMark struct {
	name string
	text string                  // made with this process's key
	fits func(other string) bool // reports whether a text was made with this process's key
	lost string                  // what would be lost without the key
}

var keyContext = []byte("millrace callback key check v1")

// keyMarks returns the marks of the configured keys.
func (mg *Migrator) keyMarks() ([]keyMark, error) {
	kid, sealed, err := mg.Sealer.Seal(nil, keyContext)
	if err != nil {
		return nil, fmt.Errorf("callback key: %w", err)
	}
	marks := []keyMark{{
		name: "callback key", text: kid + " " + base64.RawURLEncoding.EncodeToString(sealed),
		fits: func(other string) bool {
			kid, text, _ := strings.Cut(other, " ")
			sealed, err := base64.RawURLEncoding.DecodeString(text)
			if err == nil {
				_, err = mg.Sealer.Open(kid, sealed, keyContext)
			}
			return err == nil
		},
		lost: "results of calls that are pending come to callback URLs that were sealed with it, and would be refused",
	}}
	if key := mg.Key; key != nil {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("millrace migration key check v1"))
		text := base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
		marks = append(marks, keyMark{
			name: "migration key", text: text,
			fits: func(other string) bool { return hmac.Equal([]byte(other), []byte(text)) },
			lost: "what comes for sessions that have moved is handed on with it, and would be refused where they are",
		})
	}
	return marks, nil
}

// CheckKeys compares the keys with those that the history was made with, and records them in a history without marks. It runs
// before anything is posted or accepted.
func (mg *Migrator) CheckKeys(ctx context.Context, ports *Ports) error {
	marks, err := mg.keyMarks()
	if err != nil {
		return err
	}
	for _, mark := range marks {
		n, text := 0, ""
		if text, err = ports.write(ctx, note{Kind: noteKey, Of: mark.name}, mark.text); err != nil {
			return err
		}
		for {
			later, ok := ports.later(ctx, note{Kind: noteKey, Of: mark.name, N: n + 1}, !mark.fits(text))
			if !ok {
				break
			}
			n, text = n+1, later
		}
		if mark.fits(text) {
			continue
		}
		if !mg.OtherKeys {
			return fmt.Errorf("%w: the %s is not the one that the history was made with: %s; put the key back, or say that this is accepted", ErrOtherKey, mark.name, mark.lost)
		}
		if text, err = ports.write(ctx, note{Kind: noteKey, Of: mark.name, N: n + 1}, mark.text); err != nil {
			return err
		}
		if !mark.fits(text) {
			return fmt.Errorf("%w: another process has just given another %s", ErrOtherKey, mark.name)
		}
		mg.Log.Warn("going on with another key than that of the history", "key", mark.name)
	}
	return nil
}

// askOwner is how long to wait for the process that has the notes to answer about a note that may not exist.
const askOwner = 2 * time.Second

// later returns a note, if it exists. If it matters, later asks the process that has the notes, which is another one if several
// processes share the calls.
func (m *Ports) later(ctx context.Context, n note, matters bool) (string, bool) {
	if text, ok := m.read(n); ok || !matters {
		return text, ok
	}
	ctx, cancel := context.WithTimeout(ctx, askOwner)
	defer cancel()
	text, err := m.noted.Await(ctx, n)
	return text, err == nil
}

package envelope

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func of(t *testing.T, secret byte, purpose string) *Envelope {
	t.Helper()
	e, err := New(bytes.Repeat([]byte{secret}, MinSecret), purpose)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestOpen checks that a message opens only with the same secret, purpose and context.
func TestOpen(t *testing.T) {
	e := of(t, 1, "p")
	sealed := e.Seal([]byte("state"), "session", "here")
	if got, err := e.Open(sealed, "session", "here"); err != nil || string(got) != "state" {
		t.Fatalf("Open = %q, %v", got, err)
	}
	if bytes.Contains(sealed, []byte("state")) {
		t.Error("the message can be read")
	}
	if bytes.Equal(sealed, e.Seal([]byte("state"), "session", "here")) {
		t.Error("the same message looks the same twice")
	}
	for name, open := range map[string]func() ([]byte, error){
		"another secret":  func() ([]byte, error) { return of(t, 2, "p").Open(sealed, "session", "here") },
		"another purpose": func() ([]byte, error) { return of(t, 1, "q").Open(sealed, "session", "here") },
		"another context": func() ([]byte, error) { return e.Open(sealed, "session", "there") },
		"moved border":    func() ([]byte, error) { return e.Open(sealed, "sessionh", "ere") },
		"less context":    func() ([]byte, error) { return e.Open(sealed, "session") },
		"empty":           func() ([]byte, error) { return e.Open(nil, "session", "here") },
	} {
		if _, err := open(); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v, want ErrForged", name, err)
		}
	}
	for i := range sealed {
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		if _, err := e.Open(altered, "session", "here"); !errors.Is(err, ErrForged) {
			t.Fatalf("byte %d altered: %v", i, err)
		}
	}
}

// TestStale checks that a message that was delayed too long is not opened.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := of(t, 1, "p")
		sealed := e.Seal(nil)
		<-time.After(Tolerance)
		if _, err := e.Open(sealed); err != nil {
			t.Errorf("in time: %v", err)
		}
		<-time.After(time.Nanosecond)
		if _, err := e.Open(sealed); !errors.Is(err, ErrStale) {
			t.Errorf("too late: %v", err)
		}
	})
}

// TestShortSecret checks that a secret that could be guessed is refused.
func TestShortSecret(t *testing.T) {
	if _, err := New(make([]byte, MinSecret-1), "p"); err == nil {
		t.Error("a short secret is taken")
	}
}

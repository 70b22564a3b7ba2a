package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// keyOf returns the key that is kept in a file, made if there is none. It is written whole
// or not at all, and for the owner alone.
func keyOf(name string) (secret [32]byte, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		if text, err = makeKey(name); err != nil {
			return secret, err
		}
	}
	if err != nil {
		return secret, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(secret) {
		return secret, fmt.Errorf("%s is not a key: it has to be %d bytes in hexadecimal digits", name, len(secret))
	}
	return [32]byte(raw), nil
}

func makeKey(name string) ([]byte, error) {
	var secret [32]byte
	rand.Read(secret[:])
	return makeSecret(name, hex.EncodeToString(secret[:]))
}

// makeSecret makes a file with a line of text that its owner alone can read, and returns what
// is in it. If there is such a file, it is left alone: another process was first.
func makeSecret(name, line string) ([]byte, error) {
	text := []byte(line + "\n")
	draft, err := draftOf(name, text)
	if err != nil {
		return nil, err
	}
	defer os.Remove(draft)
	if err := os.Link(draft, name); errors.Is(err, os.ErrExist) {
		return os.ReadFile(name)
	} else if err != nil {
		return nil, err
	}
	return text, nil
}

// replaceSecret is makeSecret in place of what is there.
func replaceSecret(name, text string) error {
	draft, err := draftOf(name, []byte(text))
	if err != nil {
		return err
	}
	if err := os.Rename(draft, name); err != nil {
		os.Remove(draft)
		return err
	}
	return nil
}

// draftOf writes a file beside name, of mode 0600, and returns what it is called.
func draftOf(name string, text []byte) (string, error) {
	folder := filepath.Dir(name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(folder, filepath.Base(name)+"-*")
	if err != nil {
		return "", err
	}
	_, err = draft.Write(text)
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		os.Remove(draft.Name())
		return "", err
	}
	return draft.Name(), nil
}

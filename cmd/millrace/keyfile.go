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
	folder := filepath.Dir(name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	var secret [32]byte
	rand.Read(secret[:])
	text := []byte(hex.EncodeToString(secret[:]) + "\n")
	draft, err := os.CreateTemp(folder, filepath.Base(name)+"-*") // of mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(text)
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(draft.Name(), name); errors.Is(err, os.ErrExist) {
		return os.ReadFile(name) // another process was first
	} else if err != nil {
		return nil, err
	}
	return text, nil
}

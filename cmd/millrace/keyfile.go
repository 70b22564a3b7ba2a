package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/fsync"
)

// keyOf returns the key in a file, which it makes if there is none. The file is written
// completely or not at all, and only its owner may read it.
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

// callbackKey returns the key of callback URLs in a state folder, which it makes if there is
// none. It does not make one beside an existing history: pending calls there have URLs that
// only the old key opens.
func callbackKey(state string, other bool) ([32]byte, error) {
	name, history := filepath.Join(state, "callback.key"), filepath.Join(state, "history")
	_, missing := os.Stat(name)
	_, err := os.Stat(filepath.Join(history, "jetstream"))
	if errors.Is(missing, os.ErrNotExist) && err == nil && !other {
		return [32]byte{}, fmt.Errorf("%s is gone, and %s has calls whose results come to callback URLs that were sealed with it: put the file back. %s", name, history, acceptKeys)
	}
	return keyOf(name)
}

// acceptKeys is the advice for a lost key.
const acceptKeys = "If it is lost, start once with --accept-other-keys: results of calls that are pending are refused then, and these calls end by their timeouts"

// keyFiles are the files of a runtime's keys; fresh are those that did not exist.
type keyFiles struct{ names, fresh []string }

func findKeys(state, migration string) (k keyFiles) {
	k.names = []string{filepath.Join(state, "callback.key")}
	if migration != "" {
		k.names = append(k.names, migration)
	}
	for _, name := range k.names {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			k.fresh = append(k.fresh, name)
		}
	}
	return k
}

// advise adds to an error about another key where the keys are and what can be done. It removes
// a key that was made in place of a lost one.
func (k keyFiles) advise(err error) error {
	if !errors.Is(err, host.ErrOtherKey) {
		return err
	}
	for _, name := range k.fresh {
		err = errors.Join(err, os.Remove(name))
	}
	return fmt.Errorf("%w; the keys are in %s. %s", err, strings.Join(k.names, " and "), acceptKeys)
}

func makeKey(name string) ([]byte, error) {
	var secret [32]byte
	rand.Read(secret[:])
	return makeSecret(name, hex.EncodeToString(secret[:]))
}

// makeSecret makes a file with a line of text that only its owner can read, and returns its
// content. If the file exists, it is not changed: another process was first.
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
	return text, fsync.Folder(filepath.Dir(name))
}

// replaceSecret is makeSecret, but replaces an existing file.
func replaceSecret(name, text string) error {
	draft, err := draftOf(name, []byte(text))
	if err != nil {
		return err
	}
	if err := os.Rename(draft, name); err != nil {
		os.Remove(draft)
		return err
	}
	return fsync.Folder(filepath.Dir(name))
}

// draftOf writes a file with mode 0600 beside name, and returns its name.
func draftOf(name string, text []byte) (string, error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(dir, filepath.Base(name)+"-*")
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

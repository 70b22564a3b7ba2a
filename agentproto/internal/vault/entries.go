package vault

import (
	"encoding/json"
	"slices"
	"sync"
)

// entryBucket contains the entries.
const entryBucket = "transit"

// Entries are secrets in transit, each under a random name. They are written before a history names
// them, and deleted when it no longer does. Without a file they are in memory.
type Entries struct {
	file *File
	keys *Keyset

	mu     sync.Mutex
	sealed map[string][]byte
}

// NewEntries returns the entries in a file, or in memory if file is nil.
func NewEntries(file *File, keys *Keyset) *Entries {
	return &Entries{file: file, keys: keys, sealed: make(map[string][]byte)}
}

func entryContext(name string) []byte {
	list, _ := json.Marshal([]string{"transit", name})
	return list
}

// Put sets an entry, and replaces an existing one. It is durable when Put returns.
func (e *Entries) Put(name string, text []byte) error {
	sealed, err := e.keys.Seal(text, entryContext(name))
	if err != nil {
		return err
	}
	if e.file != nil {
		return e.file.Update(func(tx *Tx) error { return tx.Put(entryBucket, []byte(name), sealed) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sealed[name] = sealed
	return nil
}

// Get returns an entry, or nil if there is none.
func (e *Entries) Get(name string) (text []byte, err error) {
	var sealed []byte
	if e.file != nil {
		err = e.file.View(func(tx *Tx) error {
			sealed = slices.Clone(tx.Get(entryBucket, []byte(name)))
			return nil
		})
	} else {
		e.mu.Lock()
		sealed = e.sealed[name]
		e.mu.Unlock()
	}
	if err != nil || sealed == nil {
		return nil, err
	}
	return e.keys.Unseal(sealed, entryContext(name))
}

// Delete removes an entry, if there is one.
func (e *Entries) Delete(name string) error {
	if e.file != nil {
		return e.file.Update(func(tx *Tx) error { return tx.Delete(entryBucket, []byte(name)) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sealed, name)
	return nil
}

// Sweep removes the entries whose names are not known: a process ended before its history named
// them. It returns their number.
func (e *Entries) Sweep(known func(name string) bool) (n int, err error) {
	if e.file == nil {
		return 0, nil
	}
	var names [][]byte
	if err := e.file.View(func(tx *Tx) error {
		names = nil
		tx.Each(entryBucket, nil, func(name, _ []byte) bool {
			if !known(string(name)) {
				names = append(names, slices.Clone(name))
			}
			return true
		})
		return nil
	}); err != nil || len(names) == 0 {
		return 0, err
	}
	return len(names), e.file.Update(func(tx *Tx) error {
		for _, name := range names {
			if err := tx.Delete(entryBucket, name); err != nil {
				return err
			}
		}
		return nil
	})
}

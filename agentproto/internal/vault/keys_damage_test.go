package vault

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedKeys damages the keys of a state. Opening the state fails, because new keys are never created beside an existing
// state.
func TestDamagedKeys(t *testing.T) {
	for name, damage := range map[string]func(path string, data []byte) error{
		"removed":   func(path string, _ []byte) error { return os.Remove(path) },
		"empty":     func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"cut":       func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/4], 0o600) },
		"zeroed":    func(path string, data []byte) error { return os.WriteFile(path, make([]byte, len(data)), 0o600) },
		"a key bit": func(path string, data []byte) error { return os.WriteFile(path, flipKey(data), 0o600) },
		"another's": func(path string, _ []byte) error {
			os.Remove(path)
			_, err := LoadKeyset(path, nil)
			return err
		},
	} {
		for _, elsewhere := range []bool{false, true} {
			if elsewhere && name != "removed" && name != "empty" && name != "cut" && name != "zeroed" {
				continue // nothing encrypted with these keys is left in the state
			}
			folder := t.TempDir()
			open := func() error {
				s, err := OpenState(folder, nil, elsewhere, slog.New(slog.DiscardHandler))
				if err == nil {
					err = s.Close()
				}
				return err
			}
			for range 2 {
				if err := open(); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(folder, keysFile)
			data, err := os.ReadFile(path)
			if err == nil {
				err = damage(path, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first start has not hidden the damage
				if err := open(); err == nil || !strings.Contains(err.Error(), "keys") || !strings.Contains(err.Error(), folder) {
					t.Errorf("%s, tokens elsewhere %t: %v", name, elsewhere, err)
				}
			}
		}
	}
}

// flipKey changes one character of the key material in a keyset.
func flipKey(data []byte) []byte {
	data = bytes.Clone(data)
	at := bytes.Index(data, []byte(`"value":"`)) + len(`"value":"`) + 10
	if data[at]++; data[at] == 'Z'+1 || data[at] == 'z'+1 || data[at] == '9'+1 || data[at] == '+'+1 || data[at] == '/'+1 && data[at] != '0' {
		data[at] = 'A'
	}
	return data
}

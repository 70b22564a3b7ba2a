package toolserver

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// fillStore makes a store with records of many sizes, in buckets that have a page of their own
// and in ones that have not, and returns what is in it.
func fillStore(t *testing.T, folder string, changes int) map[string]string {
	t.Helper()
	s, err := openFileStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range changes {
		if err := s.update(func(tx tx) error {
			var err error
			for j := range 8 {
				key := fmt.Appendf(nil, "%x", sha256.Sum256([]byte{byte(i), byte(j), byte(i >> 8)}))
				err = errors.Join(err, tx.put([]string{tokenBucket, vaultBucket, stateBucket}[j%3], key, bytes.Repeat([]byte{byte(i)}, random.IntN(200))))
				if i%3 == 2 {
					old := fmt.Appendf(nil, "%x", sha256.Sum256([]byte{byte(i - 1), byte(j), byte((i - 1) >> 8)}))
					err = errors.Join(err, tx.delete([]string{tokenBucket, vaultBucket, stateBucket}[j%3], old))
				}
			}
			return errors.Join(err, tx.put("small", []byte("key"), []byte{byte(i)}), tx.put("large", []byte("key"), bytes.Repeat([]byte("x"), 10_000)))
		}); err != nil {
			t.Fatal(err)
		}
	}
	all := contents(s)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func contents(s store) map[string]string {
	all := make(map[string]string)
	s.view(func(tx tx) error {
		for _, b := range []string{tokenBucket, vaultBucket, stateBucket, "small", "large"} {
			tx.each(b, nil, func(k, v []byte) bool { all[b+string(k)] = string(v); return true })
		}
		return nil
	})
	return all
}

func equal(a, b map[string]string) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedState damages a state in every way that disks, copies and people have. Each is an
// error when the server is opened, which says what to do.
func TestDamagedState(t *testing.T) {
	origin := t.TempDir()
	fillStore(t, origin, 30)
	older := filepath.Join(t.TempDir(), stateFile)
	copyFile(t, filepath.Join(origin, stateFile), older)
	fillStore(t, origin, 31)
	data, err := os.ReadFile(filepath.Join(origin, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	fillStore(t, other, 90)
	cut := func(n int) func(string) error {
		return func(path string) error { return os.WriteFile(path, data[:n], 0o600) }
	}
	fill := func(from, to int, b byte) func(string) error {
		return func(path string) error {
			bad := bytes.Clone(data)
			copy(bad[from:to], bytes.Repeat([]byte{b}, to-from))
			return os.WriteFile(path, bad, 0o600)
		}
	}
	const db = "remove toolserver.db and toolserver.mark"
	for name, c := range map[string]struct {
		damage func(path string) error
		want   string
	}{
		"empty":                {cut(0), db},
		"one byte":             {cut(1), db},
		"half a page":          {cut(2048), db},
		"one page":             {cut(4096), db},
		"two pages":            {cut(8192), db},
		"a quarter":            {cut(len(data) / 4), db},
		"half":                 {cut(len(data) / 2), db},
		"a page short":         {cut(len(data) - 4096), ""},
		"zeroed in the middle": {fill(len(data)/4, len(data)*3/4, 0), db},
		"ones in the middle":   {fill(len(data)/4, len(data)*3/4, 0xff), db},
		"zeroed at the front":  {fill(0, 8192, 0), db},
		"zeroed":               {fill(0, len(data), 0), db},
		"text":                 {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("damaged "), 9999), 0o600) }, db},
		"removed":              {os.Remove, "it is gone"},
		"older copy":           {func(path string) error { copyFile(t, older, path); return nil }, "it is an older copy"},
		"another's":            {func(path string) error { copyFile(t, filepath.Join(other, stateFile), path); return nil }, "toolserver.mark is of another file"},
		"mark damaged": {func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), markFile), bytes.Repeat([]byte("x"), 128), 0o600)
		}, "toolserver.mark is damaged"},
		"folder in its place": {func(path string) error { os.Remove(path); return os.Mkdir(path, 0o700) }, "toolserver.db"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			copyFile(t, filepath.Join(origin, stateFile), filepath.Join(folder, stateFile))
			copyFile(t, filepath.Join(origin, markFile), filepath.Join(folder, markFile))
			if err := c.damage(filepath.Join(folder, stateFile)); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Options{Name: "n", PublicURL: "http://127.0.0.1:1", State: folder})
			if c.want == "" && err == nil { // what is cut off was free
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "toolserver: the state ") || !strings.Contains(err.Error(), stateFile) {
				t.Fatalf("Open: %v", err)
			}
			// The next start says the same, and has not made it worse.
			if _, again := Open(Options{Name: "n", PublicURL: "http://127.0.0.1:1", State: folder}); again == nil || again.Error() != err.Error() {
				t.Errorf("then: %v", again)
			}
			if keys, err := NewVault(folder, mustKeys(t)); err == nil {
				keys.Close()
				t.Error("a vault opens")
			}
		})
	}
}

func mustKeys(t *testing.T) *Keyset {
	t.Helper()
	k, err := newKeyset()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestFlippedBits flips bits everywhere in a file: either it is noticed, or everything is still there.
func TestFlippedBits(t *testing.T) {
	folder := t.TempDir()
	want := fillStore(t, folder, 12)
	path := filepath.Join(folder, stateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := openMark(filepath.Join(folder, markFile))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	good, err := checkFile(bytes.NewReader(data), int64(len(data)))
	if err != nil || m.check(good) != nil {
		t.Fatal(err)
	}
	noticed, harmless := 0, 0
	random := rand.New(rand.NewPCG(3, 4))
	for at := 0; at < len(data); at += 1 + random.IntN(15) {
		bit := byte(1) << random.IntN(8)
		data[at] ^= bit
		found, err := checkFile(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			err = m.check(found)
		}
		switch {
		case err != nil:
			noticed++
		case found.sum != good.sum || *found.known != *good.known:
			t.Fatalf("bit %#x of byte %d: not noticed", bit, at)
		default:
			if harmless++; harmless%200 == 0 { // bbolt is of the same opinion
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				s, err := openFileStore(folder)
				if err != nil {
					t.Fatalf("bit %#x of byte %d: %v", bit, at, err)
				}
				if !equal(contents(s), want) {
					t.Fatalf("bit %#x of byte %d: the records have changed", bit, at)
				}
				s.close()
			}
		}
		data[at] ^= bit
	}
	t.Logf("%d bytes: %d noticed, %d harmless", len(data), noticed, harmless)
	if noticed < 1000 || harmless == 0 {
		t.Errorf("%d noticed, %d harmless", noticed, harmless)
	}
}

// FuzzCheckFile looks for files with which reading does not end, or goes wrong.
func FuzzCheckFile(f *testing.F) {
	folder := f.TempDir()
	s, err := openFileStore(folder)
	if err != nil {
		f.Fatal(err)
	}
	s.update(func(tx tx) error { return tx.put("b", []byte("k"), bytes.Repeat([]byte("v"), 5000)) })
	s.close()
	data, err := os.ReadFile(filepath.Join(folder, stateFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:min(len(data), 40_000)], uint16(4096*3+10), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, x uint64) {
		data = bytes.Clone(data)
		for i := range 8 {
			if int(at)+i < len(data) {
				data[int(at)+i] ^= byte(x >> (8 * i))
			}
		}
		if _, err := checkFile(bytes.NewReader(data), int64(len(data))); err != nil && !errors.Is(err, errDamaged) {
			t.Error(err)
		}
	})
}

// TestStateFromBefore opens a state that was written before there were sums and marks, and one
// whose mark is an earlier one or has gone: nothing is lost, and from then on it is checked.
func TestStateFromBefore(t *testing.T) {
	folder := t.TempDir()
	want := fillStore(t, folder, 20)
	path, marked := filepath.Join(folder, stateFile), filepath.Join(folder, markFile)
	s, err := openFileStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(*fileStore).db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(sumBucket)) }); err != nil {
		t.Fatal(err)
	}
	s.close()
	os.Remove(marked)
	for range 2 {
		if s, err = openFileStore(folder); err != nil || !equal(contents(s), want) {
			t.Fatalf("%v", err)
		}
		s.close()
	}
	early, err := os.ReadFile(marked)
	if err != nil {
		t.Fatal(err)
	}
	want = fillStore(t, folder, 25)
	for _, mark := range [][]byte{early, nil} {
		if err := os.WriteFile(marked, mark, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err = openFileStore(folder); err != nil || !equal(contents(s), want) {
			t.Fatalf("%v", err)
		}
		s.close()
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFileStore(folder); !errors.Is(err, errDamaged) {
		t.Errorf("empty: %v", err)
	}
}

// TestDamagedKeys damages the keys of a state, which are never made anew beside one.
func TestDamagedKeys(t *testing.T) {
	for name, damage := range map[string]func(path string, data []byte) error{
		"removed":   func(path string, _ []byte) error { return os.Remove(path) },
		"empty":     func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"cut":       func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/4], 0o600) },
		"zeroed":    func(path string, data []byte) error { return os.WriteFile(path, make([]byte, len(data)), 0o600) },
		"a key bit": func(path string, data []byte) error { return os.WriteFile(path, flipKey(data), 0o600) },
		"another's": func(path string, _ []byte) error {
			os.Remove(path)
			_, err := LoadKeyset(path)
			return err
		},
	} {
		for _, vault := range []Vault{nil, NewMemoryVault()} {
			if vault != nil && name != "removed" && name != "empty" && name != "cut" && name != "zeroed" {
				continue // nothing was encrypted with them that is still there
			}
			folder := t.TempDir()
			open := func() error {
				s, err := Open(Options{Name: "n", PublicURL: "http://127.0.0.1:1", State: folder, Vault: vault})
				if err == nil {
					err = s.Close(t.Context())
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
			for range 2 { // the first start has not made it look whole
				if err := open(); err == nil || !strings.Contains(err.Error(), "keys") || !strings.Contains(err.Error(), folder) {
					t.Errorf("%s, vault %t: %v", name, vault != nil, err)
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

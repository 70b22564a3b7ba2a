package vault

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

// fillStore creates a store with records of many sizes, in buckets that have their own page and in
// buckets that do not. It returns the contents.
func fillStore(t *testing.T, folder string, changes int) map[string]string {
	t.Helper()
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range changes {
		if err := s.Update(func(tx *Tx) error {
			var err error
			for j := range 8 {
				key := fmt.Appendf(nil, "%x", sha256.Sum256([]byte{byte(i), byte(j), byte(i >> 8)}))
				err = errors.Join(err, tx.Put([]string{"tokens", "vault", "transit"}[j%3], key, bytes.Repeat([]byte{byte(i)}, random.IntN(200))))
				if i%3 == 2 {
					old := fmt.Appendf(nil, "%x", sha256.Sum256([]byte{byte(i - 1), byte(j), byte((i - 1) >> 8)}))
					err = errors.Join(err, tx.Delete([]string{"tokens", "vault", "transit"}[j%3], old))
				}
			}
			return errors.Join(err, tx.Put("small", []byte("key"), []byte{byte(i)}), tx.Put("large", []byte("key"), bytes.Repeat([]byte("x"), 10_000)))
		}); err != nil {
			t.Fatal(err)
		}
	}
	all := contents(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func contents(s *File) map[string]string {
	all := make(map[string]string)
	s.View(func(tx *Tx) error {
		for _, b := range []string{"tokens", "vault", "transit", "small", "large"} {
			tx.Each(b, nil, func(k, v []byte) bool { all[b+string(k)] = string(v); return true })
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

// TestDamagedFile damages the state file in the ways that disks, copies and people do. Opening it
// returns an error that says what to do.
func TestDamagedFile(t *testing.T) {
	origin := t.TempDir()
	fillStore(t, origin, 30)
	older := filepath.Join(t.TempDir(), FileName)
	copyFile(t, filepath.Join(origin, FileName), older)
	fillStore(t, origin, 31)
	data, err := os.ReadFile(filepath.Join(origin, FileName))
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
		"another's":            {func(path string) error { copyFile(t, filepath.Join(other, FileName), path); return nil }, "toolserver.mark is of another file"},
		"mark damaged": {func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), MarkName), bytes.Repeat([]byte("x"), 128), 0o600)
		}, "toolserver.mark is damaged"},
		"folder in its place": {func(path string) error { os.Remove(path); return os.Mkdir(path, 0o700) }, "toolserver.db"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			copyFile(t, filepath.Join(origin, FileName), filepath.Join(folder, FileName))
			copyFile(t, filepath.Join(origin, MarkName), filepath.Join(folder, MarkName))
			if err := c.damage(filepath.Join(folder, FileName)); err != nil {
				t.Fatal(err)
			}
			s, err := Open(folder)
			if c.want == "" && err == nil { // the part that was cut off was free
				s.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "toolserver: the state ") || !strings.Contains(err.Error(), FileName) {
				t.Fatalf("Open: %v", err)
			}
			// The next start returns the same error: the first one has not made the damage worse.
			if _, again := Open(folder); again == nil || again.Error() != err.Error() {
				t.Errorf("then: %v", again)
			}
		})
	}
}

// TestFlippedBits flips single bits throughout a file: either the damage is detected, or all contents are still there.
func TestFlippedBits(t *testing.T) {
	folder := t.TempDir()
	want := fillStore(t, folder, 12)
	path := filepath.Join(folder, FileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := openMark(filepath.Join(folder, MarkName))
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
			if harmless++; harmless%200 == 0 { // bbolt agrees
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				s, err := Open(folder)
				if err != nil {
					t.Fatalf("bit %#x of byte %d: %v", bit, at, err)
				}
				if !equal(contents(s), want) {
					t.Fatalf("bit %#x of byte %d: the records have changed", bit, at)
				}
				s.Close()
			}
		}
		data[at] ^= bit
	}
	t.Logf("%d bytes: %d noticed, %d harmless", len(data), noticed, harmless)
	if noticed < 1000 || harmless == 0 {
		t.Errorf("%d noticed, %d harmless", noticed, harmless)
	}
}

// FuzzCheckFile looks for files that make checkFile loop forever or fail with an error other than ErrDamaged.
func FuzzCheckFile(f *testing.F) {
	folder := f.TempDir()
	s, err := Open(folder)
	if err != nil {
		f.Fatal(err)
	}
	s.Update(func(tx *Tx) error { return tx.Put("b", []byte("k"), bytes.Repeat([]byte("v"), 5000)) })
	s.Close()
	data, err := os.ReadFile(filepath.Join(folder, FileName))
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
		if _, err := checkFile(bytes.NewReader(data), int64(len(data))); err != nil && !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	})
}

// TestFileFromBefore opens a state that was written before checksums and marks existed, and states
// whose mark is outdated or missing. Nothing is lost, and the state is checked from then on.
func TestFileFromBefore(t *testing.T) {
	folder := t.TempDir()
	want := fillStore(t, folder, 20)
	path, marked := filepath.Join(folder, FileName), filepath.Join(folder, MarkName)
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(sumBucket)) }); err != nil {
		t.Fatal(err)
	}
	s.Close()
	os.Remove(marked)
	for range 2 {
		if s, err = Open(folder); err != nil || !equal(contents(s), want) {
			t.Fatalf("%v", err)
		}
		s.Close()
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
		if s, err = Open(folder); err != nil || !equal(contents(s), want) {
			t.Fatalf("%v", err)
		}
		s.Close()
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty: %v", err)
	}
}

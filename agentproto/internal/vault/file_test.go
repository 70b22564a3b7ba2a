package vault

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// list returns the keys that begin with prefix, with their values.
func list(t *testing.T, s *File, bucket, prefix string) string {
	t.Helper()
	var all []string
	if err := s.View(func(tx *Tx) error {
		all = nil
		tx.Each(bucket, []byte(prefix), func(k, v []byte) bool {
			all = append(all, string(k)+"="+string(v))
			return true
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestFile(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(func(tx *Tx) error {
		for _, k := range []string{"b2", "a", "b1", "c", "b"} {
			if err := tx.Put("x", []byte(k), []byte("v"+k)); err != nil {
				return err
			}
		}
		return tx.Put("y", []byte("empty"), nil)
	}); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s, "x", "b"); got != "b=vb b1=vb1 b2=vb2" {
		t.Errorf("each: %s", got)
	}
	failure := errors.New("no")
	err = s.Update(func(tx *Tx) error {
		if string(tx.Get("x", []byte("a"))) != "va" || tx.Get("x", []byte("none")) != nil || tx.Get("none", []byte("a")) != nil {
			t.Error("get is wrong")
		}
		if tx.Get("y", []byte("empty")) == nil {
			t.Error("a key without a value is not there")
		}
		tx.Put("x", []byte("a"), []byte("changed"))
		tx.Delete("x", []byte("b1"))
		tx.Put("z", []byte("new"), []byte("new"))
		if string(tx.Get("x", []byte("a"))) != "changed" || tx.Get("x", []byte("b1")) != nil {
			t.Error("a transaction does not see its own changes")
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("update = %v", err)
	}
	if got := list(t, s, "x", "") + list(t, s, "z", ""); got != "a=va b=vb b1=vb1 b2=vb2 c=vc" {
		t.Errorf("after an update that failed: %s", got)
	}
	s.Update(func(tx *Tx) error {
		tx.Delete("none", []byte("a"))
		tx.Delete("x", []byte("none"))
		return tx.Delete("x", []byte("b"))
	})
	if got := list(t, s, "x", "b"); got != "b1=vb1 b2=vb2" {
		t.Errorf("after delete: %s", got)
	}
}

func TestFileIsLocked(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(tx *Tx) error { return tx.Put("x", []byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, FileName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := Open(folder); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(tx *Tx) error { return nil }); err == nil {
		t.Error("a closed store can be updated")
	}
	if s, err = Open(folder); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := list(t, s, "x", ""); got != "k=v" {
		t.Errorf("after opening again: %s", got)
	}
	if _, err := Open(filepath.Join(folder, FileName)); err == nil {
		t.Error("a file passes for a folder")
	}
}

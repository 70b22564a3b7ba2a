package toolserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
)

// stores runs a test with each kind of store.
func stores(t *testing.T, test func(t *testing.T, s store)) {
	t.Run("memory", func(t *testing.T) { test(t, newMemoryStore()) })
	t.Run("file", func(t *testing.T) {
		s, err := openFileStore(filepath.Join(t.TempDir(), "state"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		test(t, s)
	})
}

// list returns the keys and values that begin with prefix.
func list(t *testing.T, s store, bucket, prefix string) string {
	t.Helper()
	var all []string
	if err := s.view(func(tx tx) error {
		all = nil
		tx.each(bucket, []byte(prefix), func(k, v []byte) bool {
			all = append(all, string(k)+"="+string(v))
			return true
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		if err := s.update(func(tx tx) error {
			for _, k := range []string{"b2", "a", "b1", "c", "b"} {
				if err := tx.put("x", []byte(k), []byte("v"+k)); err != nil {
					return err
				}
			}
			return tx.put("y", []byte("empty"), nil)
		}); err != nil {
			t.Fatal(err)
		}
		if got := list(t, s, "x", "b"); got != "b=vb b1=vb1 b2=vb2" {
			t.Errorf("each: %s", got)
		}
		failure := errors.New("no")
		err := s.update(func(tx tx) error {
			if string(tx.get("x", []byte("a"))) != "va" || tx.get("x", []byte("none")) != nil || tx.get("none", []byte("a")) != nil {
				t.Error("get is wrong")
			}
			if tx.get("y", []byte("empty")) == nil {
				t.Error("a key without a value is not there")
			}
			tx.put("x", []byte("a"), []byte("changed"))
			tx.delete("x", []byte("b1"))
			tx.put("z", []byte("new"), []byte("new"))
			if string(tx.get("x", []byte("a"))) != "changed" || tx.get("x", []byte("b1")) != nil {
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
		s.update(func(tx tx) error {
			tx.delete("none", []byte("a"))
			tx.delete("x", []byte("none"))
			return tx.delete("x", []byte("b"))
		})
		if got := list(t, s, "x", "b"); got != "b1=vb1 b2=vb2" {
			t.Errorf("after delete: %s", got)
		}
	})
}

// TestStoreTogether has many updates at once, which share one transaction. Every
// tenth of them fails and every eleventh panics: the others are kept.
func TestStoreTogether(t *testing.T) {
	opened, err := openFileStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer opened.close()
	s := opened.(*fileStore)
	const n = 100
	var all sync.WaitGroup
	hold := make(chan struct{})
	began := make(chan struct{})
	all.Go(func() {
		s.update(func(tx) error {
			close(began)
			<-hold
			return nil
		})
	})
	<-began
	errs, ids := make([]error, n), make([]int, n)
	for i := range n {
		all.Go(func() {
			errs[i] = s.update(func(tx tx) error {
				ids[i] = tx.(*fileTx).ID()
				tx.put("x", fmt.Appendf(nil, "%03d", i), []byte("v"))
				if i%11 == 3 {
					panic("eleventh")
				}
				if i%10 == 3 {
					return errors.New("tenth")
				}
				return nil
			})
		})
	}
	for gathered := 0; gathered < n; goruntime.Gosched() {
		s.mu.Lock()
		gathered = len(s.waiting)
		s.mu.Unlock()
	}
	close(hold)
	all.Wait()
	for i, err := range errs {
		if wrong := i%10 == 3 || i%11 == 3; wrong != (err != nil) {
			t.Errorf("update %d: %v", i, err)
		} else if !wrong && ids[i] != ids[0] {
			t.Errorf("update %d was not written together with the first", i)
		}
		if kept := list(t, s, "x", fmt.Sprintf("%03d", i)) != ""; kept != (err == nil) {
			t.Errorf("update %d: kept %t, error %v", i, kept, err)
		}
	}
}

func TestStoreFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	s, err := openFileStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(tx tx) error { return tx.put("x", []byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, stateFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := openFileStore(folder); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(tx tx) error { return nil }); err == nil {
		t.Error("a closed store can be updated")
	}
	if s, err = openFileStore(folder); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if got := list(t, s, "x", ""); got != "k=v" {
		t.Errorf("after opening again: %s", got)
	}
	if _, err := openFileStore(filepath.Join(folder, stateFile)); err == nil {
		t.Error("a file passes for a folder")
	}
}

package sim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
)

// TestSaved checks that a failed schedule is saved and run first the next time, and that a passing
// test writes nothing. It catches a saved schedule that is not run, and one that cannot be deleted.
func TestSaved(t *testing.T) {
	t.Chdir(t.TempDir())
	files := func() []string {
		all, err := filepath.Glob("testdata/sim/*")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	wrong, right := lostUpdate(), lostUpdate()
	right.Clients = right.Clients[:1]
	right.Eventually = nil
	if said := fails(t, func(t testing.TB) { sim.Test(t, right) }); strings.Contains(said, "FAIL") || len(files()) != 0 {
		t.Fatalf("%s\n%v", said, files())
	}
	said := fails(t, func(t testing.TB) { sim.Test(t, wrong) })
	if len(files()) != 1 || !strings.Contains(said, "saved: "+files()[0]) || !strings.Contains(said, "both count: the value is 1") || !strings.Contains(said, "rerun: go test -run '^TestSaved$' -sim.replay ") {
		t.Fatalf("%s\n%v", said, files())
	}
	path := files()[0]
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if said = fails(t, func(t testing.TB) { sim.Test(t, wrong) }); !strings.Contains(said, "it has failed before, see "+path) || strings.Contains(said, "saved: ") {
		t.Error(said)
	}
	// A schedule may have any number of choices; here most of them are the default.
	long := strings.Replace(string(before), "\n\n", strings.Repeat(".0", 50_000)+"\n\n", 1)
	if err := os.WriteFile(path, []byte(long), 0o666); err != nil {
		t.Fatal(err)
	}
	if said = fails(t, func(t testing.TB) { sim.Test(t, wrong) }); !strings.Contains(said, "it has failed before, see "+path) {
		t.Errorf("a long schedule: %s", said)
	}
	if err := os.WriteFile(path, before, 0o666); err != nil {
		t.Fatal(err)
	}
	fixed := lostUpdate()
	fixed.Eventually = nil
	if said = fails(t, func(t testing.TB) { sim.Test(t, fixed) }); strings.Contains(said, "FAIL") || !strings.Contains(said, "the schedule of "+path+" does not fail\n") {
		t.Error(said)
	}
	if said = fails(t, func(t testing.TB) { sim.Test(t, right) }); strings.Contains(said, "FAIL") || !strings.Contains(said, "does not fail, and is of another program or other clients") {
		t.Error(said)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) || len(files()) != 1 {
		t.Errorf("the file was changed: %v %v", err, files())
	}
	if err := os.WriteFile(path, []byte("something\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if said = fails(t, func(t testing.TB) { sim.Test(t, right) }); !strings.Contains(said, path+": the first line is not") {
		t.Error(said)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if said = fails(t, func(t testing.TB) { sim.Test(t, right) }); strings.Contains(said, "FAIL") {
		t.Error(said)
	}
}

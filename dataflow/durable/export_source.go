package durable

import (
	"context"
	"fmt"
	"go/token"
	"io"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"strings"

	"github.com/millrace/millrace/internal/engine"
)

// ExportName returns the base name of files with the steps up to one: the recording of [History.Export] adds
// .mrh to it, and the test of [History.ExportTest] adds _test.go.
func ExportName(partition int, step uint64) string {
	return fmt.Sprintf("partition%d_step%d", partition, step)
}

// ExportTest writes a Go test that repeats the steps of a partition up to step number to, or all of them if to
// is zero. The test reads testdata/NAME.mrh, written by [History.Export], where NAME comes from [ExportName].
// It fails if the flow does not have the operators that were recorded, and names the first that differs. It is
// in the package of the build function if that function has a name; otherwise it must be completed by hand.
func (h *History) ExportTest(ctx context.Context, w io.Writer, partition int, to uint64) error {
	if ctx == nil {
		engine.NilContext("durable.History.ExportTest")
	}
	place, err := h.Place(ctx, partition, to)
	if err != nil {
		return err
	}
	to = place.Number
	pkg, build, why := "flow", "build", " // the function that durable.Start was given"
	if p, f, ok := splitName(h.core.name); ok {
		pkg, build, why = p, f, ""
	}
	_, err = fmt.Fprintf(w, `package %s

import (
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
)

// The steps of partition %d, of location %s, up to step %d.
func TestPartition%dStep%d(t *testing.T) {
	sim.RerunFile(t, "testdata/%s.mrh", func(s *sim.Sim) {
		%s(s.Flow())%s
		s.Start()
		s.Quiesce()
	})
}
`, pkg, partition, oneLine(h.Location(partition)), to, partition, to, ExportName(partition, to), build, why)
	return err
}

// oneLine returns a name that fits into a line comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// nameOf returns the name of a function, with the path of its package.
func nameOf(f any) string {
	if fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); fn != nil {
		return fn.Name()
	}
	return ""
}

// version matches the last part of a module path if it is a major version.
var version = regexp.MustCompile(`^v[0-9]+$`)

// splitName returns the package and the name of a function that has a name.
func splitName(name string) (pkg, function string, ok bool) {
	dir, last := path.Split(name)
	pkg, function, _ = strings.Cut(last, ".")
	if version.MatchString(pkg) {
		pkg = path.Base(dir)
	}
	return pkg, function, token.IsIdentifier(pkg) && token.IsIdentifier(function)
}

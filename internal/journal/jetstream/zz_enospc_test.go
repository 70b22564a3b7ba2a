package jetstream_test
import ("testing";"os";"errors";"time";"context"
"github.com/millrace/millrace/internal/journal"
"github.com/millrace/millrace/internal/journal/jetstream")
func TestENOSPC(t *testing.T) {
	dir := os.Getenv("TINY")
	if dir == "" { t.Skip() }
	l := open(t, jetstream.Options{Dir: dir})
	n := 0
	var err error
	var fence uint64
	for err == nil && n < 2000 { if n == 20 { f, _ := os.Create(dir+"/ballast"); b := make([]byte, 1<<16); for { if _, e := f.Write(b); e != nil { break } }; f.Close() }
		ctx, c := context.WithTimeout(t.Context(), 10*time.Second)
		if os.Getenv("STEP") != "" {
			var f uint64
			if f, err = l.Commit(ctx, 0, fence, make([]byte, 200<<10)); err == nil { fence = f; n++ }
		} else {
			if _, err = l.Append(ctx, 0, make([]byte, 200<<10)); err == nil { n++ }
		}
		c()
	}
	t.Log(n, errors.Is(err, journal.ErrFull), err)
	_, err = l.Append(soon(t), 0, make([]byte, 100))
	t.Log("again", errors.Is(err, journal.ErrFull), err)
	l.Close()
	os.Remove(dir+"/ballast")
	l = open(t, jetstream.Options{Dir: dir})
	u, err := l.Usage(soon(t), 0)
	t.Log(u, err)
	h, err := l.Restore(soon(t), 0)
	t.Log(h.Fence, fence, len(h.Steps), err)
	if _, err := l.Append(soon(t), 0, make([]byte, 100)); err != nil { t.Error(err) }
}

package disklog

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// format is the version of everything that this package writes: files, keys and values.
//
// Since format 2, a message may have its records in a file. A log of format 1 keeps that format
// until it gets the first one.
const format = 2

// An identity distinguishes a log from every other. It is written once, when the log is created: to
// a file, which is read before anything else is opened, and among the keys.
type identity struct {
	format     int
	id         journal.Identity
	created    time.Time
	name       string
	partitions int
}

func newIdentity(format int, name string, partitions int) identity {
	i := identity{format: format, created: time.Now().UTC().Truncate(time.Second), name: name, partitions: partitions}
	rand.Read(i.id[:])
	return i
}

const identityFormat = "millrace disklog format %d\nid %s\ncreated %s\nname %s\npartitions %d\n"

// encode returns the identity as text, with its checksum in the last line.
func (i identity) encode() []byte {
	text := fmt.Sprintf(identityFormat, i.format, i.id, i.created.Format(time.RFC3339), i.name, i.partitions)
	return fmt.Appendf(nil, "%schecksum %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

var errIdentity = errors.New("it is not the identity of a log")

// decodeIdentity decodes the result of encode. If the format is another one,
// it decodes only the format.
func decodeIdentity(b []byte) (i identity, err error) {
	text, sum, ok := strings.Cut(string(b), "checksum ")
	if _, err := fmt.Sscanf(text, "millrace disklog format %d\n", &i.format); err != nil {
		return identity{}, errIdentity
	}
	if !ok || sum != fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli)) {
		return identity{}, errSum
	}
	if i.format > format {
		return i, nil
	}
	var id, created string
	if _, err := fmt.Sscanf(text, identityFormat, &i.format, &id, &created, &i.name, &i.partitions); err != nil {
		return identity{}, errIdentity
	}
	if n, err := hex.Decode(i.id[:], []byte(id)); err != nil || n != len(i.id) {
		return identity{}, errIdentity
	}
	if i.created, err = time.Parse(time.RFC3339, created); err != nil || i.partitions < 1 || i.partitions > maxPartitions {
		return identity{}, errIdentity
	}
	return i, nil
}

// readIdentity returns the content of the identity file, or the reason why it cannot be read.
func (l *Log) readIdentity() (identity, error) {
	b, err := readFile(l.opts.fs, l.path(identityName))
	if err != nil {
		return identity{}, err
	}
	return decodeIdentity(b)
}

// storeIdentity writes the identity among the keys, with what else is in a batch.
func (l *Log) storeIdentity(g *group, i identity) error {
	text := i.encode()
	g.set(kindIdentity, 0, 0, len(text), func(b []byte) []byte { return append(b, text...) })
	return l.apply(g.batch, pebble.Sync)
}

func (l *Log) storedIdentity(i *identity) (found bool, err error) {
	var text []byte
	err = l.one(kindIdentity, 0, func(_ uint64, d *decoder) { text = append(text, d.rest...) })
	if err != nil || text == nil {
		return false, err
	}
	*i, err = decodeIdentity(text)
	return true, err
}

// readFile returns the content of a file.
func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// writeFile writes a file durably and atomically.
func writeFile(fs vfs.FS, path string, data []byte) (err error) {
	temporary := path + ".new"
	f, err := fs.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte(nil), data...))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := fs.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(path))
}

// syncDir makes the names of the files in a folder durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

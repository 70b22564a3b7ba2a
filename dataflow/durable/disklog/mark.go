package disklog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A mark records, for each file that pebble appends to (its write-ahead logs and manifests), how
// many bytes were synced, and the checksum of those bytes. Pebble treats an unreadable end of its
// newest file as data that was never acknowledged, and does not notice a missing file. With the
// mark the two cases can be distinguished: what the mark records was synced.
//
// The mark is written after each sync. It is itself synced only before a file that it records is
// removed, so it never claims more than exists, and after a loss of power it may be an older one
// that claims less.
//
// The file has two places that are written in turn. A place is
//
//	checksum (4) | length (4) | turn (8) | per file: kind (1) number (8) bytes (8) checksum (4)
type mark struct {
	file vfs.File
	turn uint64
	buf  []byte
}

// A synced is the entry of a mark for one file.
type synced struct {
	kind   byte // of the file: 'l' a write-ahead log, 'm' a manifest
	number uint64
	bytes  int64
	sum    uint32
}

const (
	markPlace  = 4 << 10
	markHeader = 4 + 4 + 8
	markEntry  = 1 + 8 + 8 + 4
)

// fileKind reports whether a file is recorded in the mark, with its kind and number. The names are
// those of pebble.
func fileKind(base string) (kind byte, number uint64, ok bool) {
	var rest string
	if n, err := fmt.Sscanf(base, "%d.log%s", &number, &rest); n == 1 && err != nil && strings.HasSuffix(base, ".log") {
		return 'l', number, true
	}
	if n, _ := fmt.Sscanf(base, "MANIFEST-%d%s", &number, &rest); n == 1 {
		return 'm', number, true
	}
	return 0, 0, false
}

// isTable reports whether a file is a table of pebble.
func isTable(path string) bool { return strings.HasSuffix(path, ".sst") }

func (s synced) name() string {
	if s.kind == 'l' {
		return fmt.Sprintf("%06d.log", s.number)
	}
	return fmt.Sprintf("MANIFEST-%06d", s.number)
}

// readMark returns the content of the newest place that can be read.
func readMark(b []byte) (turn uint64, files []synced, ok bool) {
	for place := range slices.Chunk(b, markPlace) {
		if len(place) < markHeader {
			continue
		}
		length := int(binary.BigEndian.Uint32(place[4:]))
		if length < markHeader || length > len(place) || (length-markHeader)%markEntry != 0 {
			continue
		}
		at := binary.BigEndian.Uint64(place[8:])
		if crc32.Checksum(place[4:length], castagnoli) != binary.BigEndian.Uint32(place) || ok && at <= turn {
			continue
		}
		turn, files, ok = at, nil, true
		for e := range slices.Chunk(place[markHeader:length], markEntry) {
			files = append(files, synced{e[0], binary.BigEndian.Uint64(e[1:]), int64(binary.BigEndian.Uint64(e[9:])), binary.BigEndian.Uint32(e[17:])})
		}
	}
	return turn, files, ok
}

// openMark opens the file, creating it if it does not exist, and returns its content. Known is
// false if it has no valid content: it is new, or neither place can be read.
func openMark(fs vfs.FS, path string) (m *mark, files []synced, known bool, err error) {
	b, err := readFile(fs, path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, false, err
	}
	m = &mark{}
	m.turn, files, known = readMark(b)
	if m.file, err = fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified); err != nil {
		return nil, nil, false, err
	}
	if len(b) < 2*markPlace {
		if _, err := m.file.WriteAt(make([]byte, 2*markPlace-len(b)), int64(len(b))); err != nil {
			return nil, nil, false, errors.Join(err, m.file.Close())
		}
	}
	return m, files, known, nil
}

// write writes one place.
func (m *mark) write(files []synced) error {
	m.turn++
	b := append(m.buf[:0], make([]byte, markHeader)...)
	for _, f := range files[max(0, len(files)-(markPlace-markHeader)/markEntry):] {
		b = append(b, f.kind)
		b = binary.BigEndian.AppendUint64(b, f.number)
		b = binary.BigEndian.AppendUint64(b, uint64(f.bytes))
		b = binary.BigEndian.AppendUint32(b, f.sum)
	}
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)))
	binary.BigEndian.PutUint64(b[8:], m.turn)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	m.buf = b
	_, err := m.file.WriteAt(b, int64(m.turn%2)*markPlace)
	return err
}

// settle writes and syncs both places, so that neither records a file that is not in files.
func (m *mark) settle(files []synced) error {
	for range 2 {
		if err := m.write(files); err != nil {
			return err
		}
		if err := m.file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// verify returns an error if a file no longer contains what was synced.
func (s synced) verify(fs vfs.FS, dir string) error {
	f, err := fs.Open(fs.PathJoin(dir, s.name()))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the file %s is gone", s.name())
	}
	if err != nil {
		return fmt.Errorf("the file %s: %w", s.name(), err)
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	switch n, err := io.CopyN(sum, f, s.bytes); {
	case err == io.EOF:
		return fmt.Errorf("the file %s has %d bytes, and had %d", s.name(), n, s.bytes)
	case err != nil:
		return fmt.Errorf("the file %s: %w", s.name(), err)
	case sum.Sum32() != s.sum:
		return fmt.Errorf("the file %s was changed somewhere in its first %d bytes", s.name(), s.bytes)
	}
	return nil
}

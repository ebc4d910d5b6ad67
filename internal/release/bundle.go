package main

import (
	"archive/zip"
	"errors"
	"os"
	"time"
)

// bundled is where the binary is in a bundle.
const bundled = "server/dsh-agentlink"

// writeBundle writes a zip file with a binary and the manifest that tells a client how to start it.
func writeBundle(binary, path, version string, date time.Time) (err error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	about, err := manifest(version)
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := zip.NewWriter(out)
	for _, f := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{{"manifest.json", 0o644, about}, {bundled, 0o755, program}} {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(f.mode)
		w, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

package main

import (
	"bytes"
	"debug/buildinfo"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// contents returns a CycloneDX inventory of the programs' modules and Go version, based on their build information.
func contents(name, version string, at time.Time, programs []string) ([]byte, error) {
	found := map[string]cdx.Component{}
	add := func(path, version, sum string) {
		ref := "pkg:golang/" + path + "@" + version
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, BOMRef: ref, Name: path, Version: version, PackageURL: ref,
			Scope: cdx.ScopeRequired,
		}
		if sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
		}
		found[ref] = c
	}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return nil, err
		}
		add("std", strings.TrimPrefix(info.GoVersion, "go"), "")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			add(m.Path, m.Version, m.Sum)
		}
	}
	var all []cdx.Component
	var refs []string
	for _, c := range found {
		all, refs = append(all, c), append(refs, c.BOMRef)
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	slices.Sort(refs)
	own := "pkg:generic/retake@" + version
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: at.Format(time.RFC3339),
		Component: &cdx.Component{
			Type: cdx.ComponentTypeApplication, BOMRef: own, Name: name, Version: version, PackageURL: own,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	bom.Components = &all
	bom.Dependencies = &[]cdx.Dependency{{Ref: own, Dependencies: &refs}}
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

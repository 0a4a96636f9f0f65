"""Cost of one activity on one machine.  Plain functions of arrays; each names its equation, unit,
paper and range.

=============  ==============================================  ==========================================
cost           equation                                        paper
=============  ==============================================  ==========================================
`ratio`        t / lambda; work / rate                         Austin et al. 2021, eqs 3-4
`loggp`        (o + L) + n / (eta BW)                          Groves et al. 2022, Fig 8
`slack`        s on every call that crosses to the device      Shorts and Grant 2024, eq 1
`wire`         n LinkBW / n^, the heavier direction            Abdelhafez et al. (AHEAD), eq 2
`pcie`         packets, requests, answers; link layer          eqs 3-5; Neugebauer et al. 2018
`nvlink`       flits of 16 bytes                               Abdelhafez et al. (AHEAD), eqs 6-8
`packet`       (o + L) + 2 n / MemBW + n / BW_eff              Abdelhafez et al. (AHEAD), eqs 9-10
`cxl`          ceil(n / 64) 40 ns; n / (share b_n) + 40 ns     Austin et al. 2021, eqs 9-13
`tiers`        n' / BW_tier(n'); bytes / clamp(BW / active)    Austin et al. 2021, section 4.1
`integration`  1 / (1 - c p o (1 - 1/k)); stages of a tree     Austin et al. 2021, section 8
`roofline`     max(flops + memory, copies) or their sum        Austin et al. 2021, eq 8 (Byfl)
`mdm`          W sum I / sum (C + S)                           Wang et al. 2020; Austin et al. 2021, eq 7
`affine`       A (1 + r x); the bound of convexity             Austin et al. 2021, section 4.4 (SSI)
`gpudirect`    wire + copies (d + c n); wire + pins p          Khetawat et al., Table I
=============  ==============================================  ==========================================
"""

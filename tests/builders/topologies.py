"""Where the GPUs of a node stand, as each tool prints it; the underlining of nvidia-smi's heading
is an escape sequence.
"""

NVIDIA = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\t0-31,64-95\t0\t\tN/A
GPU1\tNV12\t X \tPXB\t32-63,96-127\t1\t\tN/A
NIC0\tSYS\tPXB\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
"""
ROCM = """============================ ROCm System Management Interface ============================
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0

======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 3
GPU[0]\t\t: (Topology) Numa Affinity: 3
GPU[1]          : (Topology) Numa Node: -1
GPU[1]          : (Topology) Numa Affinity: -1
================================== End of ROCm SMI Log ===================================
"""
HWLOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x000000ff" complete_cpuset="0x000000ff" allowed_cpuset="0x0000000f" gp_index="1">
    <info name="HostName" value="nodeofsecrets17"/>
    <object type="Package" os_index="0" cpuset="0x0000000f" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" gp_index="3"/>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[00-06]" gp_index="4">
        <object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="31.507692" gp_index="5">
          <object type="OSDev" name="cuda0" osdev_type="5" gp_index="6"/>
        </object>
        <object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0207 [15b3:101b] [15b3:0007] 00" pci_link_speed="31.507692" gp_index="7"/>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x000000f0" gp_index="8">
      <object type="NUMANode" os_index="1" cpuset="0x000000f0" gp_index="9"/>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[40-46]" gp_index="10">
        <object type="Bridge" bridge_type="1-1" depth="1" pci_busid="0000:40:01.0" pci_type="0604 [8086:a70d] [1043:8882] 01"
 pci_link_speed="15.753846" gp_index="11">
          <object type="PCIDev" pci_busid="0000:41:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="31.507692"
 gp_index="12">
            <object type="OSDev" name="cuda1" osdev_type="5" gp_index="13"/>
          </object>
        </object>
      </object>
    </object>
  </object>
</topology>
"""
